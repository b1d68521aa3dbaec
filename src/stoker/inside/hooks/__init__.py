"""Everything Stoker listens to in a training, in one list."""

from .autograd import BackwardHook
from .collector import GcHook
from .compiling import CompileHook
from .envs import GymHook, GymnasiumHook, PettingZooHook, Sb3Hook, TorchrlHook
from .evaluation import EvalModeHook, LightningEvalHook, Sb3EvalHook
from .graphed import GraphedStepHook
from .lead import LeadHook
from .loader import LoaderHook
from .loader_worker import FetchHook
from .modules import ModuleHook
from .named import NamedHook
from .optimizers import ClipHook, OptimizerHook
from .pickling import DillHook, PickleHook
from .ranges import NvtxHook, RecordFunctionHook
from .saving import SaveHook
from .transfers import TransferHook

HOOKS = (
    ModuleHook,
    BackwardHook,
    OptimizerHook,
    ClipHook,
    GraphedStepHook,
    LoaderHook,
    FetchHook,
    GymnasiumHook,
    GymHook,
    PettingZooHook,
    Sb3Hook,
    TorchrlHook,
    NamedHook,
    PickleHook,
    DillHook,
    TransferHook,
    LeadHook,
    SaveHook,
    GcHook,
    RecordFunctionHook,
    NvtxHook,
    CompileHook,
    Sb3EvalHook,
    LightningEvalHook,
    EvalModeHook,
)

"""Why a trial failed: one class from its words, its exit and what was raised inside, and the way back."""

from stoker.model.failure import FailureClass
from stoker.trials.failures.classify import Failure, classify_failure

__all__ = ["Failure", "FailureClass", "classify_failure"]

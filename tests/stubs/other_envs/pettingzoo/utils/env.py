class AECEnv:
    def step(self, action):
        raise NotImplementedError


class ParallelEnv:
    def step(self, actions):
        raise NotImplementedError

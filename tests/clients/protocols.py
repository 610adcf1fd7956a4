"""For mypy (`make lint`): the real service, its fake and the simulation's stand-in keep one Protocol.

The services name the Protocol as their base, so mypy holds each signature to it; here each is also made whole.
"""

from swarmd.clients.network import NetworkOps
from swarmd.clients.policy import PolicyOps
from swarmd.clients.scorer import ScorerOps
from swarmd.clients.worker import Worker
from swarmd.experiment.swarms.gossip import GossipPort
from swarmd.experiment.swarms.workers import InProcess, SharedScorer
from swarmd.policy.service import PolicyService
from swarmd.processes.supervise import Child
from swarmd.questions.service import ScorerService
from swarmd.swarm.service import NetworkService
from tests.loops.fakes import FakeChild, FakeNetwork, FakePolicy, FakeScorer

SCORERS: list[type[ScorerOps]] = [ScorerService, SharedScorer, FakeScorer]
POLICIES: list[type[PolicyOps]] = [PolicyService, FakePolicy]
NETWORKS: list[type[NetworkOps]] = [NetworkService, GossipPort, FakeNetwork]
WORKERS: list[type[Worker]] = [Child, InProcess, FakeChild]

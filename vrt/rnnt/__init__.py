"""Beam and greedy search of a transducer (RNN-T) over anything that scores."""

from vrt.rnnt.arpa import ArpaError
from vrt.rnnt.boosting import BoostingTree, tokenized
from vrt.rnnt.config import BeamConfig, BeamError, Fusion
from vrt.rnnt.greedy import greedy
from vrt.rnnt.joint import Joint
from vrt.rnnt.malsd import malsd
from vrt.rnnt.model import PARAKEET, ModelScorer, Transducer, TransducerConfig
from vrt.rnnt.nbest import Hypothesis, NBest
from vrt.rnnt.ngram import Ngram
from vrt.rnnt.paths import Step
from vrt.rnnt.predictor import LSTMState, Predictor
from vrt.rnnt.scorer import Scorer
from vrt.rnnt.session import BeamSession, BeamSessionError, BeamUpdate
from vrt.rnnt.tdt import tdt_malsd
from vrt.rnnt.tdt_config import TdtConfig
from vrt.rnnt.tdt_greedy import tdt_greedy
from vrt.rnnt.tdt_model import TdtModelScorer
from vrt.rnnt.tdt_scorer import DurationScorer
from vrt.rnnt.tdt_session import TdtSession
from vrt.rnnt.trace import Iteration, Trace
from vrt.rnnt.why import why

__all__ = [
    "PARAKEET",
    "ArpaError",
    "BeamConfig",
    "BeamError",
    "BeamSession",
    "BeamSessionError",
    "BeamUpdate",
    "BoostingTree",
    "DurationScorer",
    "Fusion",
    "Hypothesis",
    "Iteration",
    "Joint",
    "LSTMState",
    "ModelScorer",
    "NBest",
    "Ngram",
    "Predictor",
    "Scorer",
    "Step",
    "TdtConfig",
    "TdtModelScorer",
    "TdtSession",
    "Trace",
    "Transducer",
    "TransducerConfig",
    "greedy",
    "malsd",
    "tdt_greedy",
    "tdt_malsd",
    "tokenized",
    "why",
]

"""Parameters of the run of DP-SGD that several exhibits look at."""

from companion.study import Parameter

__all__ = ["HAYES", "OURS", "RUN"]

OURS = "not printed: our own"
HAYES = "as Hayes et al."

#: data, network and sampling of a training run
RUN = {
    "data": Parameter("str", "digits", "MNIST", HAYES, "labelled images: digits (8x8) or MNIST"),
    "hidden": Parameter("int", 10, 10, HAYES, "width of the hidden layer", low=1),
    "pool": Parameter("int", 400, 2000, OURS, "records that candidates are drawn from", low=20),
    "delta": Parameter("float", 1e-5, 1e-5, HAYES, "delta", low=1e-100),
    "sampling_rate": Parameter("float", 0.1, 0.05, OURS, "q, of Poisson sampling", low=1e-6),
    "steps": Parameter("int", 100, 400, OURS, "T, steps", low=1),
}

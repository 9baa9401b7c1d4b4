"""Where the version that is measured has its `Training`: another tree may be from before 0.3.0."""

try:
    from tfcsr.experiments.training import Training as Training
except ImportError:
    from tfcsr.training.loop import Training as Training  # type: ignore[attr-defined, no-redef]

"""Speed, measured: one command per figure. Ratios are taken in one run, interleaved, as medians with their spread."""

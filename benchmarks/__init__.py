"""What Heliograph costs, measured: one file per benchmark, run by `python -m benchmarks [NAME ...]`.

Figures are printed, written to `benchmarks/results/` as JSON, and rendered into `docs/benchmarks.md`; nobody types one.
"""

"""``python -m recsys`` is the command ``privrec``."""

from recsys.cli.main import run

if __name__ == "__main__":
    run()

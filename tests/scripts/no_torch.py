"""No torch at all: plain Python arithmetic."""

from tiny_job import Losses, arguments, report


def main() -> None:
    args = arguments(__doc__, steps=200)
    losses, guess = Losses(args.losses), 10.0
    for _ in range(args.steps):
        sum(i * i for i in range(10_000))
        guess -= 0.1 * guess
        losses.add(guess)
    report(ticks=0, env_steps=0)


if __name__ == "__main__":
    main()

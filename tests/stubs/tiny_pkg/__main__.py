import sys

from stub_training import train

if __name__ == "__main__":
    train(int(sys.argv[1]))

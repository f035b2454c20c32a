"""`python -m regard`: the command `regard`, also under `accelerate launch -m regard`."""

from regard.cli import main

if __name__ == "__main__":
    main()

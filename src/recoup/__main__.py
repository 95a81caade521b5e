"""`python -m recoup`: the command, where its script is not on the path."""

from recoup.cli.main import main

if __name__ == "__main__":
    main()

"""``python -m dconnet`` is the command ``dconnet``."""

from dconnet.cli import main

if __name__ == "__main__":
    main()

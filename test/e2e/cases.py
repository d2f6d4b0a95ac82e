"""What the scripts of cases share: a case is a function of a context; each gets a folder of its own.

    from cases import case, main

    @case
    def compiles(c): ...

    if __name__ == "__main__":
        main(__doc__, Context)      # Context(args, folder); args.bin, args.models
"""
import argparse
import pathlib
import sys
import tempfile

CASES = []


def case(function):
    CASES.append(function)
    return function


def main(usage, context):
    """Runs the cases, or those named on the command line; the exit code tells whether any failed."""
    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    failed = 0
    for function in CASES:
        if args.names and function.__name__ not in args.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(context(args, pathlib.Path(folder)))
                print(f"ok    {function.__name__}", flush=True)
            except (AssertionError, StopIteration, KeyError) as error:
                failed += 1
                print(f"FAIL  {function.__name__}: {error!s}", flush=True)
    sys.exit(failed > 0)

"""The same work in attensor and in PyTorch, in turns, as one table of ratios.

    python compare.py                                     encoder layers, one thread and all
    python compare.py --works token_detection,digits      the two training exercises
    python compare.py --markdown ratios.md --plot ratios.png

Both sides get the same weights and inputs, and what they compute is compared before anything is timed. Then they take
turns, ours first in one round and theirs first in the next, each in a process of its own that lives through all rounds
with a fixed number of threads. A ratio is PyTorch's time by attensor's in one round; the table has the median and the
range over the rounds. Times themselves are not printed: they say more about the machine and its neighbours. On a machine
that is busy with other work the ratios of several threads mean little: PyTorch's threads wait for each other by spinning.

Needs Python with torch, safetensors and numpy (matplotlib for --plot), and attensor's programs bench_attensor_peer_worker,
token_detection and digits, which a build of this tree leaves in --build.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# name: batch, length, dim, heads, hidden
ENCODER_LAYERS = {
    "encoder_layer": (8, 128, 512, 8, 2048),
    "encoder_layer_small": (1, 16, 64, 4, 256),
    "encoder_layer_tiny": (2, 4, 16, 4, 64),
}
TRAININGS = {"token_detection": "train_token_detection.py", "digits": "train_digits.py"}
EPOCHS = 30
PAUSE = 0.2  # seconds between turns, in which threads that still wait for work fall asleep


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="Works: " + ", ".join([*ENCODER_LAYERS, *TRAININGS]))
    parser.add_argument("--works", default=",".join(ENCODER_LAYERS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--threads", default=f"1,{processors()}" if processors() > 1 else "1",
                        help="comma-separated numbers of threads (default: %(default)s); training uses the first")
    parser.add_argument("--rounds", type=int, default=9, help="turns that each side gets (default: %(default)s; training: a third)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of a turn (default: %(default)s)")
    parser.add_argument("--build", type=pathlib.Path, action="append",
                        help="a directory with our programs (default: the newest under build/)")
    parser.add_argument("--markdown", type=pathlib.Path, help="also write the table to this file")
    parser.add_argument("--plot", type=pathlib.Path, help="also draw the ratios to this file")
    arguments = parser.parse_args()
    arguments.works = arguments.works.split(",")
    arguments.threads = [int(number) for number in arguments.threads.split(",")]
    for work in arguments.works:
        if work not in ENCODER_LAYERS and work not in TRAININGS:
            parser.error(f"unknown work {work}; there are {', '.join([*ENCODER_LAYERS, *TRAININGS])}")
    return arguments


def processors():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_program(name, directories):
    """Ours: the newest of that name."""
    found = [path for directory in directories or [ROOT / "build"] for path in pathlib.Path(directory).rglob(name)
             if path.is_file() and os.access(path, os.X_OK)]
    if not found:
        sys.exit(f"compare.py: no program {name} below {', '.join(map(str, directories or [ROOT / 'build']))}; "
                 "build the tree first, or name its directory with --build")
    return str(max(found, key=lambda path: path.stat().st_mtime))


class Worker:
    """One side: a process that answers a line with a line."""

    def __init__(self, command, threads):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        environment.pop("ATTENSOR_NUM_THREADS", None)
        self.process = subprocess.Popen([*command, "--threads", str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1, env=environment)
        self.greeting = self.process.stdout.readline().strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            sys.exit(f"compare.py: {self.greeting or 'a worker'} answered {answer or 'nothing'!r} to: {line}")
        return answer

    def seconds(self, line, repeats):
        return float(self.ask(f"{line} repeats={repeats}").split()[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def in_turns(ours, theirs, rounds):
    """[(seconds of ours, seconds of theirs)]; who comes first alternates."""
    pairs = []
    for number in range(rounds):
        measured = {}
        for side in (ours, theirs) if number % 2 == 0 else (theirs, ours):
            time.sleep(PAUSE)
            measured[side] = side()
        pairs.append((measured[ours], measured[theirs]))
    return pairs


def row(work, what, threads, agreement, pairs):
    ratios = sorted(theirs / ours for ours, theirs in pairs)
    return {"work": work, "what": what, "threads": threads, "agreement": agreement, "median": statistics.median(ratios),
            "least": ratios[0], "most": ratios[-1], "rounds": len(ratios)}


# ---- encoder layers --------------------------------------------------------------------------------------------------


def write_encoder_layer(path, shape):
    """Weights and inputs of both sides; biases and norms are moved away from 0 and 1, so that an error in them shows."""
    import torch
    from safetensors.torch import save_file

    batch, length, dim, heads, hidden = shape
    torch.manual_seed(7)
    layer = torch.nn.TransformerEncoderLayer(dim, heads, hidden, dropout=0.0, batch_first=True)
    tensors = {name: value.detach() + 0.02 * torch.randn_like(value) for name, value in layer.named_parameters()}
    save_file({**tensors, "x": torch.randn(batch, length, dim), "grad_output": torch.randn(batch, length, dim)}, str(path))


def largest_difference(ours_path, theirs_path):
    """Of all outputs and gradients, the largest difference by the largest number of that tensor."""
    import numpy
    from safetensors.numpy import load_file

    ours, theirs = load_file(ours_path), load_file(theirs_path)
    inference = theirs.pop("inference")
    if set(ours) != set(theirs):
        sys.exit(f"compare.py: the sides answer different tensors: {sorted(set(ours) ^ set(theirs))}")
    worst = 0.0
    for name, want in [*theirs.items(), ("output", inference)]:
        if ours[name].shape != want.shape:
            sys.exit(f"compare.py: {name} is {ours[name].shape} here and {want.shape} there")
        # A gradient that is zero but for rounding, such as that of the key bias, is measured by 1.
        scale = max(float(numpy.abs(want).max()), 1.0)
        difference = float(numpy.abs(ours[name] - want).max()) / scale
        if not difference <= 1e-4:
            sys.exit(f"compare.py: {name} differs by {difference:.2g} of its largest number; nothing is timed")
        worst = max(worst, difference)
    return worst


def compare_encoder_layer(name, arguments, folder):
    shape = ENCODER_LAYERS[name]
    source = folder / f"{name}.safetensors"
    write_encoder_layer(source, shape)
    program = find_program("bench_attensor_peer_worker", arguments.build)
    for threads in arguments.threads:
        ours, theirs = Worker([program], threads), Worker([sys.executable, str(HERE / "torch_worker.py")], threads)
        for side, path in ((ours, folder / "ours"), (theirs, folder / "theirs")):
            side.ask(f"check encoder_layer file={source} heads={shape[3]} output={path}")
        agreement = largest_difference(folder / "ours", folder / "theirs")
        for what in ("forward", "backward"):
            line = f"time encoder_layer {what} file={source} heads={shape[3]}"
            repeats = {}
            for side in (ours, theirs):
                side.seconds(line, 3)
                repeats[side] = max(3, int(arguments.seconds / side.seconds(line, 10)))
            pairs = in_turns(*(lambda side=side: side.seconds(line, repeats[side]) for side in (ours, theirs)), arguments.rounds)
            yield row(name, "forward + backward" if what == "backward" else "forward", threads, f"{agreement:.1e}", pairs)
        greetings.update((ours.greeting, theirs.greeting))
        ours.close()
        theirs.close()


# ---- training --------------------------------------------------------------------------------------------------------


def train(command, seed, threads, accuracies):
    """Seconds, as the program prints them."""
    command = [*command, "--seed", str(seed), "--epochs", str(EPOCHS), "--threads", str(threads)]
    with tempfile.TemporaryDirectory() as folder:  # for what an example writes
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    seconds = re.search(r"^trained in ([0-9.]+) s", done.stdout, re.MULTILINE)
    accuracy = re.search(r"^test accuracy ([0-9.]+)", done.stdout, re.MULTILINE)
    if done.returncode or not seconds or not accuracy:
        sys.exit(f"compare.py: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    accuracies.append(float(accuracy[1]))
    return float(seconds[1])


def compare_training(name, arguments):
    ours = [find_program(name, arguments.build)]
    theirs = [sys.executable, str(HERE / TRAININGS[name])]
    threads = arguments.threads[0]
    our_accuracy, their_accuracy, pairs = [], [], []
    for seed in range(1, max(3, arguments.rounds // 3) + 1):
        pairs += in_turns(lambda: train(ours, seed, threads, our_accuracy), lambda: train(theirs, seed, threads, their_accuracy), 1)
    agreement = f"{statistics.mean(our_accuracy):.3f} / {statistics.mean(their_accuracy):.3f}"
    yield row(name, f"training, {EPOCHS} epochs", threads, agreement, pairs)


# ---- the table -------------------------------------------------------------------------------------------------------

greetings = set()
COLUMNS = ("work", "pass", "threads", "difference or accuracies", "ratio", "range")


def cells(entry):
    return (entry["work"], entry["what"], str(entry["threads"]), entry["agreement"], f"{entry['median']:.2f}",
            f"{entry['least']:.2f} - {entry['most']:.2f}, {entry['rounds']} rounds")


def write_markdown(path, rows):
    lines = ["| " + " | ".join(line) + " |" for line in [COLUMNS, ["---"] * len(COLUMNS), *map(cells, rows)]]
    notes = ["", "Ratio: PyTorch's time by attensor's, the median of the rounds; both took turns in one run.", "",
             *sorted(greetings)]
    path.write_text("\n".join([*lines, *notes]) + "\n")


def draw(path, rows):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.9 + 0.45 * len(rows)))
    names = [f"{entry['work']}, {entry['what']}, {entry['threads']} thread{'s' * (entry['threads'] > 1)}" for entry in rows]
    places = range(len(rows))[::-1]
    spread = [[entry["median"] - entry["least"] for entry in rows], [entry["most"] - entry["median"] for entry in rows]]
    axes.barh(places, [entry["median"] for entry in rows], xerr=spread, color="#8c2b7a", ecolor="#555", capsize=3)
    axes.axvline(1, color="#333", linewidth=1)
    axes.set_yticks(places, names)
    axes.set_xlabel("PyTorch's time by attensor's: more is better")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    arguments = parse_arguments()
    missing = [module for module in ("torch", "safetensors", "numpy") if not importlib.util.find_spec(module)]
    if missing:
        sys.exit(f"compare.py: Python has no {', '.join(missing)}; the peers are installed by hand, into an environment of their own")
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    rows, header = [], "%-20s %-20s %7s  %-24s %6s  %s"
    print(header % COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for work in arguments.works:
            found = compare_training(work, arguments) if work in TRAININGS else compare_encoder_layer(work, arguments, pathlib.Path(folder))
            for entry in found:
                rows.append(entry)
                print(header % cells(entry), flush=True)
    print(*sorted(greetings), sep="\n")
    if busy > 0.5:
        print(f"the machine was busy before this run (load {busy:.1f}); run it again when it is idle")
    if arguments.markdown:
        write_markdown(arguments.markdown, rows)
    if arguments.plot:
        draw(arguments.plot, rows)


if __name__ == "__main__":
    main()

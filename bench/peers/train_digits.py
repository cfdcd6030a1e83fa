"""The exercise of examples/digits in PyTorch: handwritten digits, the rows of an image as tokens.

    python train_digits.py --seed 1 --epochs 30 --threads 1

The learning rate warms up and falls along a cosine, and labels are smoothed, as the example does it; --plain leaves both
out. Prints the mean loss of each epoch, the test accuracy and the seconds that training took.
"""

import argparse
import math
import pathlib
import time

import torch
from torch import nn

DATA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.csv"
ROWS, COLUMNS, CLASSES = 8, 8, 10
TRAINING, BATCH, RATE = 1437, 64, 2e-3


def arguments():
    parser = argparse.ArgumentParser(description="digits in PyTorch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="a constant learning rate, labels as they are")
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    return parser.parse_args()


def images(path):
    values = torch.tensor([[float(field) for field in line.split(",")] for line in path.read_text().splitlines()])
    return values[:, :-1].reshape(-1, ROWS, COLUMNS) / 8 - 1, values[:, -1].long()


def rate(step, epochs):
    """The first two epochs warm up; the rest follows a cosine."""
    epoch_steps = math.ceil(TRAINING / BATCH)
    warmup, total = 2 * epoch_steps, max(3, epochs) * epoch_steps
    if step < warmup:
        return RATE * (step + 1) / (warmup + 1)
    return RATE * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup)))) / 2


class Classifier(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2, hidden=128, dropout=0.1):
        super().__init__()
        self.embedding = nn.Linear(COLUMNS, dim)
        self.positions = nn.Embedding(ROWS, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, hidden, dropout, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classifier = nn.Linear(dim, CLASSES)

    def forward(self, x):
        return self.classifier(self.encoder(self.embedding(x) + self.positions.weight).mean(1))


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    x, labels = images(args.data)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)

    smoothing = 0.0 if args.plain else 0.1
    step = 0

    start = time.perf_counter()
    for epoch in range(args.epochs):
        total = 0.0
        for batch in torch.randperm(TRAINING).split(BATCH):
            if not args.plain:
                optimizer.param_groups[0]["lr"] = rate(step, args.epochs)
            step += 1
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), labels[batch], label_smoothing=smoothing)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1}: loss {total / TRAINING:.5f}")
    seconds = time.perf_counter() - start

    model.eval()
    with torch.inference_mode():
        correct = (model(x[TRAINING:]).argmax(1) == labels[TRAINING:]).float().mean().item()
    print(f"test accuracy {correct:.4f}")
    print(f"trained in {seconds:.3f} s")


if __name__ == "__main__":
    main()

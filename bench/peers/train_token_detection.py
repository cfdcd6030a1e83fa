"""The exercise of examples/token_detection in PyTorch: does token 5 occur in a sequence of eight?

    python train_token_detection.py --seed 1 --epochs 30 --threads 1

Prints the mean loss of each epoch, the test accuracy and the seconds that training took.
"""

import argparse
import math
import time

import torch
from torch import nn

VOCABULARY, LENGTH, WANTED, PADDING = 32, 8, 5, 0
TRAINING, TEST, BATCH = 1000, 200, 64


def arguments():
    parser = argparse.ArgumentParser(description="token detection in PyTorch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def sequences(count, generator):
    ids = torch.randint(1, VOCABULARY, (count, LENGTH), generator=generator)
    return ids, (ids == WANTED).any(1).long()


def sinusoidal(length, dim):
    place = torch.arange(length)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2], table[:, 1::2] = place.sin(), place.cos()
    return table


class Classifier(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2, hidden=128, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, dim, padding_idx=PADDING)
        self.register_buffer("positions", sinusoidal(LENGTH, dim), persistent=False)
        layer = nn.TransformerEncoderLayer(dim, heads, hidden, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classifier = nn.Linear(dim, 2)

    def forward(self, ids):
        encoded = self.encoder(self.embedding(ids) + self.positions, src_key_padding_mask=ids == PADDING)
        return self.classifier(encoded[:, 0])


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    (ids, labels), (test_ids, test_labels) = sequences(TRAINING, generator), sequences(TEST, generator)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    start = time.perf_counter()
    for epoch in range(args.epochs):
        total = 0.0
        for batch in torch.randperm(TRAINING, generator=generator).split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(ids[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"epoch {epoch + 1}: loss {total / TRAINING:.5f}")
    seconds = time.perf_counter() - start

    model.eval()
    with torch.inference_mode():
        correct = (model(test_ids).argmax(1) == test_labels).float().mean().item()
    print(f"test accuracy {correct:.4f}")
    print(f"trained in {seconds:.3f} s")


if __name__ == "__main__":
    main()

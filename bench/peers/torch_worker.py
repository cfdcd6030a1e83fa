"""The PyTorch side of compare.py: the same lines and answers as attensor_peer_worker.cpp, which describes them.

Inference runs as PyTorch does it best: eval() and inference_mode, so that its fused layer is used.
"""

import argparse
import sys
import time

import torch
from safetensors.torch import load_file, save_file
from torch import nn


class EncoderLayer:
    def __init__(self, values):
        tensors = load_file(values["file"])
        self.x, self.grad_output = tensors.pop("x").requires_grad_(), tensors.pop("grad_output")
        hidden, dim = tensors["linear1.weight"].shape
        self.layer = nn.TransformerEncoderLayer(dim, int(values["heads"]), hidden, dropout=0.0, batch_first=True)
        self.layer.load_state_dict(tensors)

    def forward(self):
        with torch.inference_mode():
            return self.layer.eval()(self.x)

    def backward(self):
        self.layer.zero_grad()
        self.x.grad = None
        output = self.layer.train()(self.x)
        output.backward(self.grad_output)
        return output

    def check(self, path):
        found = {"inference": self.forward().clone(), "output": self.backward().detach(), "dx": self.x.grad}
        found |= {f"grad:{name}": parameter.grad for name, parameter in self.layer.named_parameters()}
        save_file({name: tensor.contiguous() for name, tensor in found.items()}, path)


WORKS = {"encoder_layer": EncoderLayer}


def answer(line, works):
    words = [word for word in line.split() if "=" not in word]
    values = dict(word.split("=", 1) for word in line.split() if "=" in word)
    key = values["file"]
    if key not in works:
        works[key] = WORKS[words[1]](values)
    work = works[key]
    if words[0] == "check":
        work.check(values["output"])
        return "ok"
    once = {"forward": work.forward, "backward": work.backward}[words[2]]
    once()
    start = time.perf_counter()
    for _ in range(int(values["repeats"])):
        once()
    return f"seconds {(time.perf_counter() - start) / int(values['repeats']):.9g}"


def main():
    parser = argparse.ArgumentParser(description="the PyTorch side of compare.py")
    parser.add_argument("--threads", type=int, required=True)
    torch.set_num_threads(parser.parse_args().threads)
    torch.set_num_interop_threads(1)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    works = {}
    for line in sys.stdin:
        try:
            print(answer(line, works), flush=True)
        except Exception as error:  # the other side reads it
            print("error", str(error).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()

"""Prints the least milliseconds that LiteRT takes for a batch of a .tflite file.

python web/tests/speed.py FILE REPEATS THREADS
"""

import sys
import time

import numpy as np
from ai_edge_litert.interpreter import Interpreter

path, repeats, threads = sys.argv[1], *map(int, sys.argv[2:])
interpreter = Interpreter(path, num_threads=threads)
interpreter.allocate_tensors()
tensor = interpreter.get_input_details()[0]
patches = np.arange(np.prod(tensor["shape"])).reshape(tensor["shape"]) * 7919 % 256
least = float("inf")
for _ in range(repeats):
    begin = time.perf_counter()
    interpreter.set_tensor(tensor["index"], patches.astype(np.float32))
    interpreter.invoke()
    interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    least = min(least, 1000 * (time.perf_counter() - begin))
print(least)

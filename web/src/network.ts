/** Running .tflite files of fixed shapes by LiteRT.js, on the CPU. */

import { type CompiledModel, loadAndCompile, loadLiteRt, supportsFeature, Tensor } from "@litertjs/core";

const MOST_THREADS = 4; // phones have few fast cores

let threads = 1;

/**
 * Loads the wasm that suits the browser; returns the number of its threads.
 *
 * Threads need a page that is cross-origin isolated.
 */
export async function startRuntime(base: string, most = MOST_THREADS): Promise<number> {
  const isolated = self.crossOriginIsolated && (await supportsFeature("relaxedSimd"));
  threads = isolated ? Math.max(1, Math.min(navigator.hardwareConcurrency, most)) : 1;
  const folder = new URL("wasm/", base).href;
  // In a worker LiteRT.js would look for its files, and for the script of its threads, at the
  // worker's own address.
  Object.assign(self, {
    Module: {
      locateFile: (file: string) => folder + file,
      mainScriptUrlOrBlob: `${folder}litert_wasm_threaded_internal.js`,
    },
  });
  await loadLiteRt(folder, { threads: threads > 1 });
  return threads;
}

type Values = Float32Array | Int32Array | Uint8Array;

export class Network {
  private constructor(private readonly model: CompiledModel) {}

  static async load(url: string): Promise<Network> {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${url}: ${response.status}`);
    const model = await loadAndCompile(new Uint8Array(await response.arrayBuffer()), {
      accelerator: "wasm",
      cpuOptions: { numThreads: threads },
    });
    return new Network(model);
  }

  /** Runs a network of one input and one output. */
  async run(input: Float32Array): Promise<Values> {
    const { key } = this.model;
    const [{ name }] = this.model.getInputDetails();
    const [output] = Object.values(await this.runSignature(key, { [name]: input }));
    return output;
  }

  /** Runs a signature of a network that has several; the results are copies. */
  async runSignature(signature: string, inputs: Record<string, Float32Array>): Promise<Record<string, Values>> {
    const details = this.model.signatures[signature].getInputDetails();
    const tensors = Object.fromEntries(
      details.map(({ name, shape }) => [name, new Tensor(inputs[name], shape)] as const),
    );
    const outputs = await this.model.run(signature, tensors);
    const values = Object.entries(outputs).map(([name, tensor]) => [name, tensor.toTypedArray().slice()] as const);
    for (const tensor of [...Object.values(tensors), ...Object.values(outputs)]) tensor.delete();
    return Object.fromEntries(values);
  }

  delete(): void {
    this.model.delete();
  }
}

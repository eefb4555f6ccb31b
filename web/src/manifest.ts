/** The list of networks that export_models.py writes. */

export interface DetectorEntry {
  file: string;
  bytes: number;
  stride: number;
  receptive_field: number;
  radius: number;
  image_size: [number, number];
  weights_sha256: string;
}

export interface NetworkEntry {
  name: string;
  file: string;
  bytes: number;
  precision: string;
  input_size: number;
  magnification: number;
  batch_size: number;
  output_dim: number;
  weights_sha256: string;
}

export interface Manifest {
  detector: DetectorEntry;
  networks: NetworkEntry[];
}

export async function readManifest(base: string): Promise<Manifest> {
  const response = await fetch(new URL("models/index.json", base));
  if (!response.ok) throw new Error(`models/index.json: ${response.status}; run make demo`);
  return response.json();
}

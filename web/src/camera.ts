/** The live view of the device's camera. */

export class Camera {
  private constructor(
    readonly video: HTMLVideoElement,
    private readonly stream: MediaStream,
  ) {}

  static async open(): Promise<Camera> {
    // Browsers offer cameras to pages of https and of localhost only.
    if (!navigator.mediaDevices?.getUserMedia) {
      throw new Error("The camera needs a page served by https, or from localhost.");
    }
    let stream: MediaStream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: 640 } });
    } catch (error) {
      throw new Error(`The camera cannot be used: ${error instanceof Error ? error.message : error}.`);
    }
    const video = document.createElement("video");
    video.muted = true;
    video.playsInline = true;
    video.srcObject = stream;
    await video.play();
    return new Camera(video, stream);
  }

  get isOn(): boolean {
    return this.stream.active;
  }

  close(): void {
    for (const track of this.stream.getTracks()) track.stop();
  }
}

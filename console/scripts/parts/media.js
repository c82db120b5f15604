// An image or a sound, with boxes drawn over an image.

import { html, useEffect, useState } from "../../vendor/preact.js";

/**
 * @param {Blob | null} blob
 * @returns {string | null} a URL of it, for as long as the part is shown
 */
export function useBlobUrl(blob) {
  const [url, setUrl] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    const made = blob && URL.createObjectURL(blob);
    setUrl(made);
    return () => {
      if (made) URL.revokeObjectURL(made);
    };
  }, [blob]);
  return url;
}

/** @param {{ blob: Blob, label: string, boxes?: import("../tensors.js").Box[] }} props an image or a sound */
export function MediaView({ blob, label, boxes = [] }) {
  const url = useBlobUrl(blob);
  const [size, setSize] = useState([0, 0]);
  if (!url) return null;
  if (blob.type.startsWith("audio/")) return html`<audio controls src=${url} aria-label=${label}></audio>`;
  const onLoad = (/** @type {{ target: HTMLImageElement }} */ { target }) => setSize([target.naturalWidth, target.naturalHeight]);
  return html`<div class="media">
    <img src=${url} alt=${label} onLoad=${onLoad} />
    ${size[0] > 0 &&
    boxes.length > 0 &&
    html`<svg viewBox="0 0 ${size[0]} ${size[1]}" role="img" aria-label=${`${boxes.length} boxes on ${label}`}>
      ${boxes.map((box) => html`<polygon points=${box.points.map((point) => point.join()).join(" ")}><title>${box.text}</title></polygon>`)}
    </svg>`}
  </div>`;
}

// Images of an episode: marks on them, and a dialog that shows one enlarged.

const SVG = "http://www.w3.org/2000/svg";

// Embedded in the page, or a file beside it; undefined for a name that is neither.
function imageSource(name) {
  if (payload.images?.[name]) return payload.images[name];
  if (payload.image_folder && /^[0-9a-f]{64}$/.test(name)) return payload.image_folder + "/" + name.slice(0, 2) + "/" + name + ".png";
  return undefined;
}

function missingImage() {
  const remedy = payload.image_folder ? "; python -m benchmarks replay BOARD draws it" : "";
  return make("div", "missing", "The image’s file is missing" + remedy);
}

function drawMark(svg, tag, attributes, className) {
  const shape = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  shape.setAttribute("class", className);
  svg.append(shape);
}

// Boxes and points over an image, in fractions of its sides.
function marksView(marks) {
  const layer = make("span", "marks");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 1 1");
  svg.setAttribute("preserveAspectRatio", "none");
  layer.append(svg);
  for (const { box, point, label, is_truth } of marks) {
    const kind = is_truth ? "truth-mark" : "said-mark";
    const [x, y] = box ?? point;
    if (box) {
      const place = { x, y, width: box[2] - x, height: box[3] - y };
      drawMark(svg, "rect", place, "halo");
      drawMark(svg, "rect", place, kind);
    } else {
      drawMark(svg, "path", { d: "M" + x + " " + y + "h0" }, "halo dot");
      drawMark(svg, "path", { d: "M" + x + " " + y + "h0" }, kind + " dot");
    }
    if (!label) continue;
    const text = make("span", "mark-label " + kind, label);
    // What is said stands above its mark, the truth below, so that both can be read.
    const isBelow = is_truth ? box[3] < 0.92 : y < 0.08;
    text.style.left = 100 * x + "%";
    text.style.top = 100 * (isBelow && box ? box[3] : y) + "%";
    if (isBelow) text.classList.add("below");
    if (x > 0.6) text.classList.add("leftward");
    layer.append(text);
  }
  return layer;
}

function markedImage(source, alt, marks) {
  const frame = make("span", "marked");
  const image = make("img");
  Object.assign(image, { src: source, alt, loading: "lazy", decoding: "async" });
  frame.append(image);
  if (marks.length) frame.append(marksView(marks));
  return frame;
}

// A button that enlarges its image. `caption` names the image where an episode has several.
function imageView(name, { caption = "", marks = [] } = {}) {
  const source = imageSource(name);
  if (!source) return missingImage();
  const figure = make("figure", "image");
  const button = make("button", "enlarge");
  button.type = "button";
  const alt = caption || "What the agent saw";
  button.setAttribute("aria-label", "Enlarge: " + alt);
  button.title = "Enlarge";
  const frame = markedImage(source, alt, marks);
  const image = frame.querySelector("img");
  image.addEventListener("load", () => figure.classList.toggle("small", image.naturalWidth < 336));
  image.addEventListener("error", () => figure.replaceWith(missingImage()));
  button.append(frame);
  button.addEventListener("click", () => enlarge(source, alt, marks));
  figure.append(button);
  if (caption) figure.append(make("figcaption", "", caption));
  return figure;
}

function enlarge(source, alt, marks) {
  const dialog = make("dialog", "enlarged");
  dialog.setAttribute("aria-label", alt);
  const close = make("button", "close", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  const bar = make("div", "enlarged-bar");
  const frame = markedImage(source, alt, marks);
  const image = frame.querySelector("img");
  image.loading = "eager";
  const scaleButton = make("button", "scale", "Actual size");
  scaleButton.type = "button";
  scaleButton.hidden = true;
  const size = make("span", "note");
  image.addEventListener("load", () => {
    const room = Math.min((0.96 * window.innerWidth - 32) / image.naturalWidth, (0.94 * window.innerHeight - 84) / image.naturalHeight);
    const scale = Math.min(room, image.naturalWidth < 336 ? 8 : 2);
    const setWidth = (width) => (image.style.width = Math.max(1, Math.floor(width)) + "px");
    setWidth(scale * image.naturalWidth);
    scaleButton.hidden = scale >= 1;
    scaleButton.addEventListener("click", (event) => {
      event.stopPropagation();
      const isFitted = scaleButton.textContent === "Actual size";
      image.classList.toggle("actual", isFitted);
      setWidth(isFitted ? image.naturalWidth : scale * image.naturalWidth);
      scaleButton.textContent = isFitted ? "Fit" : "Actual size";
    });
    if (scale >= 2) image.classList.add("pixels");
    size.textContent = image.naturalWidth + " × " + image.naturalHeight + " px";
  });
  bar.append(make("span", "", alt), size, scaleButton, close);
  dialog.append(bar, frame);
  document.body.append(dialog);
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  close.focus();
}


// What pages are built from. Everything that a model or a world wrote reaches them through textContent only.
const payload = JSON.parse(document.getElementById("payload").textContent);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined && text !== null) element.textContent = String(text);
  return element;
}

// A text that a line may break at the punctuation of names.
function breakable(tag, className, text) {
  const element = make(tag, className);
  text.split(/(?<=[,/@=_:])/).forEach((part) => element.append(part, make("wbr")));
  return element;
}

function choice(options, current, onChoose) {
  const group = make("div", "choice");
  for (const [value, text, count] of options) {
    const button = make("button", "", text);
    button.type = "button";
    button.dataset.value = value;
    button.setAttribute("aria-pressed", String(value === current));
    if (count !== undefined) button.append(make("small", "", count));
    button.addEventListener("click", () => onChoose(value));
    group.append(button);
  }
  return group;
}

function chip(name, value, kind, written = signed) {
  const sign = value > 0 ? " plus" : value < 0 ? " minus" : "";
  const element = make("span", "chip " + kind + sign, name.replaceAll("_", " "));
  element.append(make("b", "", written(value)));
  return element;
}


/* The controls that set the features. */

const byId = (id) => document.getElementById(`what-if-${id}`);

function made(name, properties = {}, children = []) {
  const element = document.createElement(name);
  Object.entries(properties).forEach(([key, value]) => {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  });
  element.append(...children);
  return element;
}

/* A name of the data may be written from right to left; bdi keeps that from changing the text around it. */
const named = (name) => made("bdi", { textContent: name });

/* A feature with a slider and a field for its number. */
class SliderControl {
  constructor(field, index, panel) {
    this.field = field;
    const id = `what-if-field-${index}`;
    this.slider = made("input", { type: "range", id, min: field.min, max: field.max, step: field.step });
    this.slider.setAttribute("aria-describedby", `${id}-range`);
    this.box = this.makeBox(field);
    this.box.id = `${id}-number`;
    this.box.setAttribute("aria-labelledby", `${id}-name`);
    const label = made("label", { htmlFor: id, id: `${id}-name` }, [named(field.name)]);
    const marks = marksOf(field, `${id}-range`, (value) => this.label(value));
    this.element = made("div", { className: "field" }, [label, this.box, this.slider, ...marks]);
    if (field.has_gaps) this.addGap(id, index, panel);
    this.show(panel.values[index]);
    this.slider.addEventListener("input", () => this.moved(panel, index));
    this.box.addEventListener("input", () => this.typed(panel, index));
    this.box.addEventListener("change", () => this.show(panel.values[index]));
    this.element.addEventListener("focusin", () => panel.choose(index));
  }

  makeBox(field) {
    return made("input", { type: "number", step: field.step });
  }

  /* A checkbox for a missing value. */
  addGap(id, index, panel) {
    this.gap = made("input", { type: "checkbox", id: `${id}-missing` });
    const label = made("label", { htmlFor: this.gap.id }, ["missing", made("span", { className: "hidden" }, [` ${this.field.name}`])]);
    this.element.append(made("div", { className: "gap" }, [this.gap, label]));
    this.gap.addEventListener("change", () => {
      panel.set(index, this.gap.checked ? null : this.field.quartiles[1]);
      this.show(panel.values[index]);
    });
  }

  moved(panel, index) {
    const value = Number(this.slider.value);
    panel.set(index, value);
    this.show(value);
  }

  typed(panel, index) {
    const value = this.read();
    if (!Number.isFinite(value)) return;
    panel.set(index, value);
    this.slider.value = String(value);
    this.describe(value);
  }

  read() {
    return this.box.valueAsNumber;
  }

  show(value) {
    if (value !== null) this.slider.value = String(value);
    this.box.value = value === null ? "" : this.text(value);
    this.describe(value);
  }

  describe(value) {
    this.slider.setAttribute("aria-valuetext", this.text(value));
    if (this.gap) this.gap.checked = value === null;
  }

  /* The values of the data are shown as they are, an optimum with six digits. */
  text(value) {
    if (value === null) return "missing";
    const plain = String(value);
    return plain.length <= 9 ? plain : String(Number(value.toPrecision(6)));
  }

  label(value) {
    return formatNumber(value);
  }
}

/* A date, or a date with a time. The slider goes by days since 1970. */
class DateControl extends SliderControl {
  makeBox(field) {
    return made("input", { type: field.has_hours ? "datetime-local" : "date" });
  }

  read() {
    return this.box.valueAsNumber / (1000 * SECONDS_PER_DAY);
  }

  text(value) {
    if (value === null) return "missing";
    const seconds = Math.round(value * SECONDS_PER_DAY);
    const text = new Date(1000 * seconds).toISOString();
    return this.field.has_hours ? text.slice(0, 19) : text.slice(0, 10);
  }

  label(value) {
    return this.text(value).slice(0, 10);
  }
}

/* The range of a feature in the data below its slider, with its quartiles. */
function marksOf(field, id, text) {
  const share = linearScale([field.min, field.max], [0, 100]);
  const [lower, median, upper] = field.quartiles;
  const half = made("span", { className: "half" });
  half.style.left = `${share(lower)}%`;
  half.style.width = `${share(upper) - share(lower)}%`;
  const whole = made("span", { className: "whole" });
  whole.style.left = `${share(field.low)}%`;
  whole.style.width = `${share(field.high) - share(field.low)}%`;
  const middle = made("span", { className: "middle" });
  middle.style.left = `${share(median)}%`;
  const described = `Data from ${text(field.low)} to ${text(field.high)}, half of them between `
    + `${text(lower)} and ${text(upper)}, median ${text(median)}`;
  const ends = made("div", { className: "ends", "aria-hidden": "true" }, [
    made("span", {}, [text(field.low)]),
    made("span", {}, [`median ${text(median)}`]),
    made("span", {}, [text(field.high)]),
  ]);
  const track = made("div", { className: "marks", "aria-hidden": "true" }, [whole, half, middle]);
  return [track, ends, made("span", { id, className: "hidden" }, [described])];
}

/* A feature with a list: levels, or the few numbers that the data have. */
class ListControl {
  constructor(field, index, panel) {
    this.field = field;
    this.options = field.names === null ? field.choices : field.names.map((_, level) => level);
    const id = `what-if-field-${index}`;
    this.list = made("select", { id });
    const label = made("label", { htmlFor: id, id: `${id}-name` }, [named(field.name)]);
    this.element = made("div", { className: "field list" }, [label, this.list]);
    this.show(panel.values[index]);
    this.list.addEventListener("change", () => {
      panel.set(index, this.valueOf(this.list.value));
      this.show(panel.values[index]);
    });
    this.element.addEventListener("focusin", () => panel.choose(index));
  }

  valueOf(text) {
    return text === "" ? null : Number(text);
  }

  show(value) {
    const options = this.options.map((option) => new Option(this.text(option), option));
    if (this.field.has_gaps || value === null) options.push(new Option(this.text(null), ""));
    if (value !== null && !this.options.includes(value)) options.push(new Option(`${this.text(value)} (not in the data)`, value));
    this.list.replaceChildren(...options);
    this.list.value = value === null ? "" : String(value);
  }

  text(value) {
    if (value === null) return this.field.names === null ? "missing" : "another one";
    return this.field.names === null ? formatNumber(value, 6) : this.field.names[value];
  }

  label(value) {
    return this.text(value);
  }
}

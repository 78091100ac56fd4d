import { fill, el } from "./dom.js";

export function show(place) { fill(place.main, el("h1", null, "data")); }

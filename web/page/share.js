// Links: `#lesson=zero&n=64`. All of a lesson's state is in the part of the address that is not sent to any server.
import {initial, mistake} from "./controls.js";

export function hashOf(lesson, state) {
  const usual = initial(lesson.controls);
  const changed = Object.entries(state).filter(([key, value]) => value !== usual[key]);
  return "#" + new URLSearchParams([["lesson", lesson.id], ...changed]);
}

// {lesson, state, problems}: what is wrong with the link is said, and the usual values stand in its place.
export function fromHash(hash, lessons) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const problems = [];
  const id = given.get("lesson");
  let lesson = lessons.find(one => one.id === id);
  if (!lesson) {
    if (hash.length > 1)
      problems.push(`there is no lesson '${(id ?? hash).slice(0, 40)}'; lessons: ${lessons.map(one => one.id).join(", ")}`);
    lesson = lessons[0];
    return {lesson, state: initial(lesson.controls), problems};
  }
  const state = initial(lesson.controls);
  for (const [key, text] of given) {
    if (key === "lesson") continue;
    const control = lesson.controls.find(one => one.key === key);
    const wrong = control ? mistake(control, text)
                          : `'${lesson.id}' has no setting '${key.slice(0, 40)}'; it has ${Object.keys(state).join(", ")}`;
    if (wrong) problems.push(wrong);
    else state[key] = text;
  }
  return {lesson, state, problems};
}

// Texts of any length in a link: deflated, in the letters that need no escape.
export async function packText(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""))
    .replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export async function unpackText(packed) {
  const letters = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(letters, letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new TextDecoder("utf-8", {fatal: true}).decode(await new Response(stream).arrayBuffer());
}

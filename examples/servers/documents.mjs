// What the example servers know. Small and constant, so that every answer can be predicted.

const documents = [
  { id: 'ocean', title: 'Ocean currents', body: 'Currents move heat from the equator to the poles.' },
  { id: 'tides', title: 'Tides', body: 'The moon and the sun move the ocean twice a day.' },
  { id: 'peers', title: 'Peer review', body: 'Peers read a paper before it is printed.' },
];

/** Documents that contain every word of `query`, ignoring case, in their own order. */
export function searchDocuments(query, limit = 10) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return documents
    .filter(({ title, body }) => words.every((word) => `${title} ${body}`.toLowerCase().includes(word)))
    .slice(0, limit)
    .map(({ id, title }) => ({ id, title }));
}

export const documentIds = () => documents.map(({ id }) => id);

/** The text of one document, or undefined. */
export const readDocument = (id) => documents.find((document) => document.id === id)?.body;

/** The first sentence of `text`; all of it when it has no end. */
export function summarize(text) {
  return /^.*?[.!?](?=\s|$)/s.exec(text.trim())?.[0] ?? text.trim();
}

const notes = new Map([
  ['groceries', 'Bread, olives, a lemon.'],
  ['ideas', 'Ask each server what it is, and believe only what it says.'],
]);

export const noteNames = () => [...notes.keys()];

/** The text of one note, or undefined. */
export const readNote = (name) => notes.get(name);

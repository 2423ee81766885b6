/** Which names exist: what a peer may be called, which declared names are refused, how a canonical name is made. */
import { sanitizeText } from '../protocol/sanitize.js';

/** Longest local name that is exposed, in UTF-16 units. The specification names 128; real servers exceed it. */
export const MAX_LOCAL_NAME_LENGTH = 1_000;

/** Longest name in a report. */
const MAX_DISPLAY_LENGTH = 200;

const PEER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * Characters that are nothing on a screen, or rearrange what is: controls, direction and format characters, zero
 * width, tags, variation selectors, line separators, and lone surrogates, which no UTF-8 wire can carry.
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** A peer's name holds no `/`: that is what makes `<peer>/<local>` unambiguous. */
export function isPeerName(name: string): boolean {
  return PEER_NAME.test(name);
}

/**
 * Why a declared tool name is not exposed, or `null` where it is fine. A name goes to the server exactly as it was
 * declared, so there is no repairing one.
 */
export function localNameProblem(local: string): string | null {
  if (local === '') return 'the name is empty';
  if (local.length > MAX_LOCAL_NAME_LENGTH) {
    return `the name has ${local.length} characters; at most ${MAX_LOCAL_NAME_LENGTH} are exposed`;
  }
  if (INVISIBLE.test(local)) return 'the name holds control, invisible or direction-changing characters';
  if (local.trim() !== local) return 'the name begins or ends with white space';
  return null;
}

/** A bare name holds no `/`; a declared one that does is always exposed with its peer's prefix. */
export function mayBeBare(local: string): boolean {
  return !local.includes('/');
}

/**
 * The canonical name with its peer's prefix. Never equals a bare name, which holds no `/`, nor another prefixed one,
 * since the first `/` ends the peer's name. Nothing relies on taking it apart again.
 */
export function prefixedName(peer: string, local: string): string {
  return `${peer}/${local}`;
}

/** A declared name, made fit for a screen: escaped, at most 200 characters. */
export function displayName(local: string): string {
  return sanitizeText(local, MAX_DISPLAY_LENGTH);
}

/** Code-unit order: the same on every machine and in every locale. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

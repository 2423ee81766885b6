/**
 * Entry point `peerage/testing/arbitraries`: what a server may write, and far sides made of it.
 *
 * Needs the package `fast-check`, which is an optional peer dependency of this one.
 */
export {
  answerIds,
  brokenDiscoverResults,
  discoverResults,
  envelopes,
  honestDiscoverResults,
  initializeResults,
  jsonValues,
  modernErrors,
  plainErrors,
  type Revisions,
  supportedRevisions,
  unaskedMessages,
  versionErrors,
} from './arbitraryMessages.js';
export { lifeScripts, scripts } from './arbitraryScripts.js';
export { type FarSideOptions, httpAnswers, noise } from './arbitrarySteps.js';

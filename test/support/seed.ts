/**
 * Where the random runs of all property tests start. Fixed by default, so that a run on one machine is the run on
 * another; `PEERAGE_SEED=random` looks elsewhere each time, any number starts there. A failure prints its seed.
 */
import * as fc from 'fast-check';

const asked = process.env['PEERAGE_SEED'] ?? '20260728';
const seed = asked === 'random' ? Date.now() | 0 : Number(asked);

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed });
if (asked === 'random') console.info(`property runs start at seed ${seed}`);

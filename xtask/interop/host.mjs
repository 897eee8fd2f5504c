// What an ACP host does with `acp-toy`, whatever client library it stands on. A library comes as one function, `connect`
// (see typescript-1.mjs and typescript-2.mjs). Each line that is printed was checked.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const CAPABILITY = { version: '1.0', stores_system_data: true, host_tables: true };
const CREDENTIALS = { type: 'api_key', api_key: 'KEY-A-interop' };
// Numbers that JavaScript can't hold: a host that keeps digits takes them from the text.
const DIGITS = '[{"big":12345678901234567890123456789012345678,"small":0.10000000000000000555}]';
const TABLE = {
  format: 'inline',
  row_count: 2,
  headers: [{ name: 'date', type: 'date' }, { name: 'sessions', type: 'integer' }],
  table: [{ date: '2026-01-01', sessions: 10 }, { date: '2026-01-02', sessions: 12 }],
};

/**
 * Runs the checks. `connect(target, capability, readTable)` starts or reaches the server and returns a client with
 * `capabilities`, `request(method, params)`, `call(params, options)` and `close()`; `fail(code, message)` makes the error
 * that a handler throws.
 */
export async function runHost({ connect, fail }) {
  const [transport, address] = process.argv.slice(2);
  const asked = [];
  const readTable = (params) => {
    asked.push(params);
    if (params.ref === 'ds_1') return TABLE;
    throw fail(-32021, `There is no table ${params.ref} in this conversation.`);
  };
  const client = await connect({ transport, address }, CAPABILITY, readTable);
  const call = async (name, args, acp, options) => {
    const meta = acp === undefined ? {} : { _meta: { acp } };
    return parts(await client.call({ name, arguments: args, ...meta }, options));
  };
  const checks = { capability, configure, extraction, digits, hostTables, hostTableErrors, progress, cancellation };
  for (const [name, check] of Object.entries(checks)) {
    try {
      console.log(`${name}: ${await check({ client, call, asked })}`);
    } catch (error) {
      console.error(`${name}: ${error.stack ?? error}`);
      process.exit(1);
    }
  }
  await client.close();
  // A handle that is left open would keep the process alive and show as a timeout.
  console.log('close: the session ended');
}

// The parts of an answer: what the model reads, what the host reads.
function parts(result) {
  const acp = result._meta?.acp ?? {};
  const texts = result.content.map((block) => block.text);
  return { result, acp, texts, model: JSON.parse(texts[0]), info: acp.system_info, data: acp.system_data };
}

async function capability({ client }) {
  const acp = client.capabilities.experimental?.acp;
  assert.equal(acp?.version, '1.0');
  assert.ok(acp.credentials_schema.oneOf.length > 1, 'the forms of credentials are there');
  return `experimental.acp ${acp.version} with ${acp.credentials_schema.oneOf.length} forms of credentials`;
}

async function configure({ client }) {
  const done = await client.request('acp/configure', { credentials: CREDENTIALS, row_limit: 2 });
  assert.equal(done.ok, true);
  assert.equal(done.effective.row_limit, 2);
  assert.ok(!JSON.stringify(done).includes(CREDENTIALS.api_key), 'the answer repeats no credential');
  const refused = await rejection(client.request('acp/configure', { row_limit: 5001 }));
  assert.equal(refused.code, -32016);
  assert.equal(refused.data.name, 'ACP_INVALID_LIMIT');
  return 'acp/configure answers what is in force, and refuses a limit by code and name';
}

async function extraction({ call }) {
  const configured = await call('rows', { resource_id: 'acc_1', n: 5 });
  assert.equal(configured.model.rows.length, 2, 'the row limit of acp/configure');
  const { result, model, info, data, texts } = await call('rows', { resource_id: 'acc_1', n: 5 }, { row_limit: 3 });
  assert.ok(!result.isError);
  assert.deepEqual(model.rows, [0, 1, 2].map((i) => ({ i, name: `r${i}` })));
  assert.deepEqual([model.total_rows, model.returned_rows, model.truncated], [5, 3, true]);
  assert.deepEqual([info.tool, info.row_limit, info.arguments.n], ['rows', 3, 5]);
  assert.deepEqual(data.headers.map((header) => header.type), ['integer', 'string']);
  assert.deepEqual(data.table, [0, 1, 2, 3, 4].map((i) => ({ i, name: `r${i}` })));
  assert.ok(!texts.join().includes('r4'), 'the model sees no row above the limit');
  return 'three rows for the model and five typed ones for the host, by _meta.acp of the call';
}

async function digits({ call }) {
  const { data } = await call('raw', { rows_json: DIGITS }, { inline_max_bytes: 0 });
  assert.equal(data.format, 'file');
  assert.deepEqual(data.headers.map((header) => header.type), ['integer', 'number']);
  const text = await readFile(fileURLToPath(data.table_uri), 'utf8');
  assert.equal(text.replaceAll(/\s/g, ''), DIGITS);
  return 'a table in a file keeps every digit';
}

async function hostTables({ call, asked }) {
  const { model, data, info } = await call('copy_table', { table_ref: 'ds_1' }, { call_id: 'call-1' });
  assert.deepEqual(asked.splice(0).map(({ ref, call_id }) => ({ ref, call_id })), [{ ref: 'ds_1', call_id: 'call-1' }]);
  assert.deepEqual(model.rows, TABLE.table);
  assert.deepEqual(data.table, TABLE.table);
  assert.deepEqual(info.arguments, { table_ref: 'ds_1' });
  const many = await Promise.all([1, 2, 3].map((n) => call('copy_table', { table_ref: 'ds_1' }, { call_id: `c${n}` })));
  assert.ok(many.every(({ data }) => data.row_count === 2));
  assert.deepEqual(asked.splice(0).map(({ call_id }) => call_id).sort(), ['c1', 'c2', 'c3']);
  return 'acp/read_table is served, one call and three at once';
}

async function hostTableErrors({ call, asked }) {
  const { result, acp } = await call('copy_table', { table_ref: 'ds_2' });
  assert.equal(result.isError, true);
  assert.deepEqual([acp.error.code, acp.error.name], [-32021, 'ACP_TABLE_NOT_FOUND']);
  assert.ok(acp.error.message.includes('There is no table ds_2 in this conversation.'));
  assert.equal(asked.splice(0).length, 1);
  return 'the error of the host reaches the model as -32021';
}

async function progress({ call }) {
  const seen = [];
  const { model } = await call('slow', { seconds: 1 }, undefined, { onprogress: (now) => seen.push(now) });
  assert.equal(model.steps, 50);
  assert.ok(seen.length > 0 && seen.every((now, at) => at === 0 || now.progress > seen[at - 1].progress));
  assert.ok(seen.every((now) => now.total === 50 && now.message.startsWith('Step ')));
  return 'progress grows, with its total and a message';
}

async function cancellation({ call }) {
  const stop = new AbortController();
  const begun = Date.now();
  // Cancelled by the first sign that it runs.
  const options = { onprogress: () => stop.abort('enough'), signal: stop.signal };
  await rejection(call('slow', { seconds: 60 }, undefined, options));
  assert.ok(Date.now() - begun < 30_000, 'the call ended early');
  const { model } = await call('peek', { tag: 'alive' });
  assert.equal(model.tag, 'alive');
  return 'a cancelled call ends, and the session goes on';
}

async function rejection(promise) {
  const outcome = await promise.then((value) => ({ value }), (error) => ({ error }));
  assert.ok(outcome.error, `it should have failed, but answered ${JSON.stringify(outcome.value)}`);
  return outcome.error;
}

// A session with the bridge, whatever client library it stands on: extractions of three sources, then SQL over what was
// stored. A library comes as one function, `connect` (see bridge-typescript-1.mjs and bridge-typescript-2.mjs), which starts
// the server of a client's settings. Each line that is printed was checked.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

export async function runBridge(connect) {
  const [settings, plan] = await Promise.all(
    process.argv.slice(2, 4).map(async (file) => JSON.parse(await readFile(file, 'utf8'))),
  );
  // VS Code has a name of its own for it.
  const [[name, server]] = Object.entries(settings.mcpServers ?? settings.servers);
  const client = await connect({ command: server.command, args: server.args });
  const seen = [];
  const ask = async (tool, args) => {
    const result = await client.callTool({ name: tool, arguments: args });
    const texts = result.content.filter((block) => block.type === 'text').map((block) => block.text);
    seen.push(...texts);
    return { texts, failed: result.isError === true };
  };
  const call = async (tool, args) => {
    const { texts, failed } = await ask(tool, args);
    assert.ok(!failed, texts.join('\n'));
    return { model: JSON.parse(texts[0]), note: texts.slice(1).join('\n') };
  };

  const { tools } = await client.listTools();
  // Cursor takes no more of both names together.
  assert.ok(tools.every((tool) => name.length + tool.name.length <= 60));
  const { model: state } = await call('acp_sources', {});
  assert.ok(state.sources.every((source) => source.state === 'ok'), JSON.stringify(state));
  console.log(`sources: ${state.sources.map(({ id }) => id).join(', ')} with ${tools.length} tools, names within 60 characters`);
  const sums = [];
  for (const step of plan.steps) {
    const { model, note } = await call(step.tool, step.arguments);
    const dataset = /saved as dataset "([a-z0-9_]+)"/.exec(note)[1];
    const { model: rows } = await call('acp_query', { sql: `SELECT SUM(${step.column}) AS s FROM ${dataset}` });
    const total = rows.rows[0].s;
    assert.equal(total, step.metric ? model.totals[step.metric] : sums[step.same_as], `${step.tool}: acp_query and Google`);
    const lines = (await readFile(path.join(plan.data, `${dataset}.csv`), 'utf8')).trimEnd().split('\n');
    assert.equal(lines.length, model.total_rows + 1, 'the whole table is stored');
    sums.push(total);
    console.log(`${step.tool}: ${model.returned_rows} of ${model.total_rows} rows seen, ${total} in all`);
  }
  const refused = await ask('acp_query', { sql: 'DELETE FROM anything' });
  assert.ok(refused.failed && refused.texts[0].includes('ACP_READ_ONLY_VIOLATION'), refused.texts.join('\n'));
  assert.ok(!seen.some((text) => text.includes(plan.secret)), 'a piece of the key was seen');
  console.log('acp_query: refuses to delete; no text held a piece of the key');
  await client.close();
}

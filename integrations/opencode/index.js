// memsync's plugin for OpenCode. If memsync agents connect opencode wrote it, memsync agents disconnect opencode removes it.
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"

const command = ["memsync", "hook"]
const commands = {"recall": {"description": "Search the memory, and answer with path and line.", "template": "Search the memory (the tool memory_search, or `memsync search` in a shell) for: $ARGUMENTS\n\nWithout words, search for what this conversation is about. Answer from the hits alone, each with its path:line. If there are none, say so."}, "remember": {"description": "Add a line to long-term memory.", "template": "Add this to the memory (the tool memory_remember, or `memsync remember` in a shell): $ARGUMENTS\n\nWithout words, take what the user last decided or corrected here. Search first: do not repeat a line, and supersede an agent's line that no longer holds. Then say path:line of what you wrote."}}
const skills = `${import.meta.dirname}/skills`

const ask = (event, data) =>
  new Promise((answer) => {
    const [program, ...words] = [...command, event, "--agent", "opencode"]
    const child = execFile(program, words, { timeout: 5000 }, (error, out) => answer(error ? "" : out))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(data))
  })

// session -> the texts that memsync recalled in it. Each request repeats them, because OpenCode does not keep them.
const recalled = new Map()
const maxPrompts = 20

export const Memsync = async ({ directory }) => ({
  config: async (config) => {
    const server = { type: "local", command: [...command.slice(0, -1), "mcp"], enabled: true }
    config.mcp = { memsync: server, ...config.mcp }
    config.command = { ...commands, ...config.command }
    if (existsSync(skills)) config.skills = { ...config.skills, paths: [...(config.skills?.paths ?? []), skills] }
  },
  "chat.message": async (input, output) => {
    const prompt = output.parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
    const data = { session_id: input.sessionID, cwd: directory, prompt: prompt.join("\n") }
    const [start, ...earlier] = recalled.get(input.sessionID) ?? [await ask("session-start", data)]
    const texts = [...earlier, await ask("prompt", data)].filter(Boolean)
    recalled.set(input.sessionID, [start, ...texts.slice(-maxPrompts)])
  },
  "experimental.chat.system.transform": async (input, output) => {
    output.system.push(...(recalled.get(input.sessionID) ?? []).filter(Boolean))
  },
  event: async ({ event }) => {
    if (event.type === "session.idle") await ask("compaction", { session_id: event.properties.sessionID, cwd: directory })
    if (event.type !== "session.deleted") return
    recalled.delete(event.properties.info.id)
    await ask("session-end", { session_id: event.properties.info.id, cwd: directory })
  },
})

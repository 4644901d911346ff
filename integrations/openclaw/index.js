// memsync's plugin for OpenClaw. If memsync agents connect openclaw wrote it, memsync agents disconnect openclaw removes it.
import { execFile } from "node:child_process"

const command = ["memsync", "hook"]

const ask = (event, data) =>
  new Promise((answer) => {
    const [program, ...words] = [...command, event, "--agent", "openclaw"]
    const child = execFile(program, words, { timeout: 5000 }, (error, out) => answer(error ? "" : out))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(data))
  })

// session -> the texts that memsync recalled in it. Each prompt repeats them, because OpenClaw does not keep them.
const recalled = new Map()
const maxPrompts = 20

export default {
  id: "memsync",
  register(api) {
    api.on("before_prompt_build", async (event, context) => {
      const prompt = event.currentUserMessage ?? event.prompt // event.prompt may begin with earlier messages
      const session = context.sessionId ?? context.sessionKey
      const data = { session_id: session, cwd: context.workspaceDir, prompt }
      const [start, ...earlier] = recalled.get(session) ?? [await ask("session-start", data)]
      const texts = [...earlier, await ask("prompt", data)].filter(Boolean).slice(-maxPrompts)
      recalled.set(session, [start, ...texts])
      return { prependContext: [start, ...texts].filter(Boolean).join("\n\n") }
    })
    api.on("agent_end", async (event, context) => {
      await ask("compaction", { session_id: context.sessionId ?? context.sessionKey })
    })
    api.on("session_end", async (event, context) => {
      const session = context.sessionId ?? context.sessionKey
      recalled.delete(session)
      await ask("session-end", { session_id: session })
    })
  },
}

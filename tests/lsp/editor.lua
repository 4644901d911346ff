-- A real Neovim does once what its user would, and writes what it got as JSON. Arguments: the server's command, the file
-- to write, the root. Neovim 0.7 has no vim.lsp.start, so the client is started by hand.
local command, out, root = vim.fn.json_decode(vim.env.SERVER), vim.env.OUT, vim.env.ROOT
local got = {}

local function wait(what, happened)
  if not vim.wait(60000, happened, 20) then
    got.failed = what
  end
end

vim.cmd("edit " .. root .. "/home.md")
local buffer = vim.api.nvim_get_current_buf()
local client = vim.lsp.start_client({ name = "memsync", cmd = command, root_dir = root })
vim.lsp.buf_attach_client(buffer, client)
wait("start", function()
  local started = vim.lsp.get_client_by_id(client)
  return started and started.initialized
end)

local function place(text, after)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, -1, true)) do
    local start = line:find(text, 1, true)
    if start then
      vim.api.nvim_win_set_cursor(0, { number, start - 1 + (after or 0) })
    end
  end
end

local function ask(method, more)
  local params = vim.tbl_extend("force", vim.lsp.util.make_position_params(0, "utf-16"), more or {})
  local answers = vim.lsp.buf_request_sync(buffer, "textDocument/" .. method, params, 60000)
  local answer = answers and answers[client] or {}
  return answer.result or answer.error or vim.NIL
end

wait("diagnostics", function()
  return #vim.diagnostic.get(buffer) > 0
end)
got.diagnostics = vim.tbl_map(function(one)
  return one.message
end, vim.diagnostic.get(buffer))
place("[[store#Decision", 3)
got.definition = ask("definition")
vim.lsp.buf.definition()
wait("jump", function()
  return vim.api.nvim_buf_get_name(0):match("store.md$") ~= nil
end)
got.jumped_to = vim.api.nvim_win_get_cursor(0)[1]
vim.api.nvim_set_current_buf(buffer)
got.references = ask("references", { context = { includeDeclaration = true } })
got.hover = ask("hover")
got.symbols = ask("documentSymbol")
got.found = vim.lsp.buf_request_sync(buffer, "workspace/symbol", { query = "SQLite" }, 60000)[client].result

vim.api.nvim_buf_set_lines(buffer, -1, -1, true, { "grün 😀 [[sto" })
place("[[sto", 5)
vim.api.nvim_win_set_cursor(0, { vim.api.nvim_buf_line_count(buffer), #"grün 😀 [[sto" })
vim.cmd("startinsert!")
got.completion = ask("completion", { position = { line = vim.api.nvim_buf_line_count(buffer) - 1, character = 13 } })
local item = got.completion.items[1]
vim.lsp.util.apply_text_edits({ item.textEdit }, buffer, "utf-16")
got.completed = vim.api.nvim_buf_get_lines(buffer, -2, -1, true)[1]
vim.cmd("stopinsert")
vim.cmd("write")

place("[[nowhere", 3)
local range = vim.lsp.util.make_range_params(0, "utf-16").range
local actions = ask("codeAction", { range = range, context = { diagnostics = {} } })
vim.lsp.util.apply_workspace_edit(actions[1].edit, "utf-16")
got.action = actions[1].title
vim.cmd("wall")

place("[[store#Decision", 3)
got.rename = ask("rename", { newName = "shop" })
vim.cmd("checktime")
vim.fn.writefile({ vim.fn.json_encode(got) }, out)
vim.cmd("qall!")

-- Shows what was measured on this machine. The content of a Div `.local` stays if its images exist and
-- the Markdown file that it names as `src`, whose content follows; that of a Div `.no-local` stays if
-- the file that it names as `without` is missing. Everything else is left out.

local folder = ""

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

-- Paths are relative to the page.
local function resolve(path)
  return pandoc.path.join({ folder, path })
end

local function images_exist(div)
  local all = true
  div:walk({ Image = function(image) all = all and exists(resolve(image.src)) end })
  return all
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return pandoc.read(text, "markdown").blocks
end

local function replace(div)
  if div.classes:includes("local") then
    local source = div.attributes.src
    if not images_exist(div) or source and not exists(resolve(source)) then return {} end
    return source and div.content .. read(resolve(source)) or div.content
  elseif div.classes:includes("no-local") then
    return exists(resolve(div.attributes.without)) and {} or div.content
  end
end

return {
  {
    Pandoc = function(document)
      local input = PANDOC_STATE.input_files[1] or ""
      folder = pandoc.path.directory(quarto and quarto.doc.input_file or input)
      return document:walk({ Div = replace })
    end,
  },
}

-- Shows what was measured on this machine. A Div `.local` with `src` becomes the content of that
-- Markdown file; a Div `.local` with an image stays if the image exists; a Div `.no-local` stays if
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

local function replace(div)
  if div.classes:includes("local") then
    local source = div.attributes.src
    if not source then return images_exist(div) and div or {} end
    if not exists(resolve(source)) then return {} end
    local file = assert(io.open(resolve(source)))
    local text = file:read("a")
    file:close()
    return pandoc.read(text, "markdown").blocks
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

-- Returns how many of the ready messages are isolated. In a plain queue, none: all isolated ones are in `delayed`.
local function isolated_too() return 0 end

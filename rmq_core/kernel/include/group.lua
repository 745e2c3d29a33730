-- group_of() returns a group by its name, nil when the stream or the group is missing. data_of() returns the payload
-- of an entry, false without one.
local function group_of(key, name)
  if redis.call('EXISTS', key) == 0 then return nil end
  for _, flat in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local found = {}
    for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
    if found.name == name then return found end
  end
end
local function data_of(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'data' then return fields[i + 1] end
  end
  return false
end

-- Returns the reply to a claim.
local function claimed(token, deadline, taken, limit, failures, most)
  return 'claimed ' .. token .. ' ' .. deadline .. ' ' .. taken .. ' ' .. limit .. ' ' .. failures .. ' ' .. most
end

-- Returns the entry in `expiring` of the message of this number. Of those that expire in the same millisecond, the one
-- with the lower number comes first.
local function entry_of(name, number) return string.format('%.0f', 5e14 + number) .. name end

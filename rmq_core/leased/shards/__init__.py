"""A queue in several slots of a Redis Cluster, which its callers see as one.

Its shards are ordinary queues, and the operations on them are those of the other modules, run side by side. The first
shard has the keys of the queue itself: it also has the settings, with the map of the shards, and all that is named.

**A lease is in one shard, or it has parts.** What takes few messages under an id that the queue makes, takes them from
one shard, and the id names it: `~<random>.<shard>`. Any other lease has its *home* in the first shard: a lease under
its id, mostly without messages. Its parts are ordinary leases `~@<id>`, in any shard. A part has the token of the home
in its own, so that what was sent under an older token is refused (`is_outdated` in takeover.lua).

**The home alone decides** who holds the lease, until when, and how it ends. So no clocks are compared.

- A takeover takes over the home, then every part that it finds; parts that others gave back before are gone.
- An ack checks that the holder has all parts, and decides in one script at home, which also records their tokens. From
  then on whoever meets a part acks it. The record goes when all parts are acked.
- A lease fails, is released or expires from the outside to the inside: the home ends last, under a new token if that is
  not the holder's work, so that nobody can decide otherwise meanwhile.
- A part has a deadline, as any lease. Whoever meets one that has passed asks the home: it waits on while the lease
  lives, is acked after that was decided, and is released if there is no such lease.

Messages with a deduplication key are stored in the shard that follows from the key, others in each in turn. A change of
the map raises its epoch; each shard refuses messages from publishers that know an older one. So after a change, the
marker of a key in its former shard is final, and publishers read it there.
"""

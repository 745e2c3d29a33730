"""The code that all disciplines share: methods of queues, publishing, settling, selecting, keys, registry."""

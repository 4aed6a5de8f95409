"""Voxtral Realtime, streaming exactly: begin, feed, finalize, reset."""

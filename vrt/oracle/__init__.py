"""The reference implementations, asked stage by stage; nothing here is imported by the engines."""

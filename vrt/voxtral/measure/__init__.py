"""What a stream costs: measured by stage, and foretold from sizes and this machine's speed."""

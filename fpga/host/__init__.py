"""Talks to a board: frames, client, and the tool."""

"""What a question asks for: its kind, its entities, its parts and the sides that it compares; by rules or a chat model.

`understand.find_understanding` is the way in, `models.Understanding` what comes out.
"""

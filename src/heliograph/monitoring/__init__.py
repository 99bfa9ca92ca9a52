"""What a process of the service did and does, as numbers and spans: counted here, shown by the faces above."""

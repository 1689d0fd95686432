// The reducer in another design: adds two vectors of four fp16 numbers a cycle. Made with
//   python -m hdl.build --top reducer --config arty --set ranks=2
module vector_adder (
  input clk, input rst,
  input valid, input [63:0] a, input [63:0] b,
  output [63:0] sum, output sum_valid, output sum_nan, output sum_overflow
);
  // -- snippet
  localparam [1:0] FP16 = 2'd0, BOTH = 2'b11;
  reducer reducer (
    .clk(clk), .rst(rst),
    .i__valid(valid), .i__payload({FP16, BOTH, 4'b1111, b, a}),
    .o__valid(sum_valid), .o__payload({sum_overflow, sum_nan, sum})
  );
  // -- end
endmodule
